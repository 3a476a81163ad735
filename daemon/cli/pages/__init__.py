"""What commands print. Pages import no command."""
