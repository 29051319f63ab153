{leaf} ?| %(values)s::text[]
