"""What is said to the Prefect API apart from the house's flows, tasks and blocks.

Also imported where a user's own packages stand in the place of those.
"""
