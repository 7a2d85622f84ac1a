"""Intake: cases decoded, checked and written in canonical form."""
