"""How Hypothesis looks for examples, in every run of the tests and on any Python.

`quick` gives the same examples on every run, so that a failure is a change's own.
`--hypothesis-profile=deep` looks further, with new examples each time. Neither has a
deadline or asks how long it takes to make examples: on a busy machine that says
nothing about a test.
"""

import hypothesis

hypothesis.settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "deep",
    hypothesis.settings.get_profile("quick"),
    derandomize=False,
    max_examples=2_000,
)
hypothesis.settings.load_profile("quick")
