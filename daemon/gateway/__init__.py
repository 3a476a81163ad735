"""What the API and the pages share: who calls, what may be called, one transaction per request, and errors."""
