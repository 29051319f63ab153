{leaf} = ANY (%(values)s::text[])
