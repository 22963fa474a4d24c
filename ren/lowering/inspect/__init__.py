"""Reports of plans as text, HTML and plots; diagrams of programs as SVG, DOT and Mermaid."""
