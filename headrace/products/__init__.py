"""Products as sets: the exchange's list, kept in the lake, and ways to choose from it.

- `listing`: the list as a value: what the exchange said, what users added, named sets, patterns,
  the one spelling of an id;
- `list_file`: the list as a file of a lake, read and changed;
- `choice`: the parameters by which a pipeline is given its products, and what they mean.
"""
