"""The command line. `commands/` has a module per noun, `pages/` what they print, this folder what commands share."""
