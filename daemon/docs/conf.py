"""Configuration of the documentation site, which `make docs` builds with Sphinx."""

project = "Tidegate"
project_copyright = "The Tidegate authors"

extensions = ["myst_parser"]
include_patterns = ["*.md", "[a-z]*/README.md", "tests/benchmarks/RESULTS.md", "*/docs/*.md"]
root_doc = "daemon/docs/index"
nitpicky = True

myst_heading_anchors = 4
"""Links to headings of up to this level are checked; their anchors are the anchors of GitHub."""

html_theme = "furo"
html_title = "Tidegate"
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
html_show_sphinx = False
