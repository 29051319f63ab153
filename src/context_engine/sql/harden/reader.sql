GRANT USAGE ON SCHEMA {schema} TO {reader};
GRANT SELECT ON {schema}.acl, {schema}.acl_member, {schema}.lexicon, {schema}.untallied, {schema}.centroid,
    {schema}.setting, {schema}.migration TO {reader};
GRANT INSERT ON {schema}.audit TO {reader}
