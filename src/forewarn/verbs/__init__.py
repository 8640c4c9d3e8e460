"""The table of verbs, from which every interface for requests is made."""
