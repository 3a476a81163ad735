"""What people are shown: pages and lists, read in one transaction for the command line, the API and the web pages."""
