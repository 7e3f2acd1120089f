"""Hostile input of every kind, drawn by number: `python -m fuzz`, or `make fuzz`.

A *kind* (`campaign.Kind`) is a function that makes one hostile case from a random generator and tries it. The case is
drawn from its kind and number alone, so whatever fails can be repeated: `make fuzz KIND=frames CASE=1234`. What
counts as a failure is in `verdict.py`.
"""
