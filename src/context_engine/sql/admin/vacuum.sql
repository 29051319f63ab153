VACUUM {schema}.document, {schema}.chunk, {schema}.embedding, {schema}.code, {schema}.tally, {schema}.word_tally,
    {schema}.untallied, {schema}.acl, {schema}.acl_member
