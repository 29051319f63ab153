-- A vector function loads the library, so that its settings are known.
SELECT current_setting('server_version'), current_user,
    '[1]'::{vector_schema}.vector OPERATOR({vector_schema}.<->) '[1]'::{vector_schema}.vector
