"""Does an endpoint keep the protocol? Checks, what they saw, and the report.

`inquiry` asks and remembers, `checks` has every check, `examination` runs them, and
`verdicts` says what may come of one: no clause is kept, or broken, without a witness.
"""
