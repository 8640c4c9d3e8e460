"""Ask the checks of [check.NAME] in threads, and give the results to control.

`forewarn.checks` judges the answers. Nothing here decides.
"""
