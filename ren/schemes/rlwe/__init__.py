"""Keys, key switching, encryption, active contexts and bytes: what ring-LWE schemes share."""
