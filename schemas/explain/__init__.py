"""Reasons why something does not go on, the gates they close and the remedies that open them."""
