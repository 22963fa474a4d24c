"""Keys, gadget decomposition and key switching: what ring-LWE schemes share."""
