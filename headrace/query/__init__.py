"""SQL over a lake: DuckDB, which reads both layers through the lake's own store and writes nothing.

with open_session(look_into("data/lake")) as session:
    for batch in session.stream("from candles('1 hour') where symbol = 'BTC-USD'"):
        ...                                     # pyarrow.RecordBatch
"""
