# table_columns
