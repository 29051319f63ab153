{column} && %(values)s::{array_type}
