{column} = ANY (%(values)s::{array_type})
