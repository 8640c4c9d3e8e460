"""The language of the transcripts in `tests/scenarios`: commands in, a story out."""
