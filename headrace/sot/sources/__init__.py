"""Where records come from: frames, JSON lines and Parquet, in files, folders, S3 and pipes."""
