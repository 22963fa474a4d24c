"""Drawing: diagrams, their layout, SVG, DOT and Mermaid, plots and tables as text."""
