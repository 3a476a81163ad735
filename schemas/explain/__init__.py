"""Explanations: reasons, the gates that they close, the changes that open them, and the facts they start from."""
