hashtextextended(ctid::text, %(seed)s::bigint + tableoid::bigint) < %(bound)s::bigint
