"""Figures of the code itself: who imports whom on how many levels, sizes, and the words of its prose."""
