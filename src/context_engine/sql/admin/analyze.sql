ANALYZE {schema}.document, {schema}.chunk, {schema}.embedding, {schema}.acl, {schema}.acl_member, {schema}.tally,
    {schema}.lexicon, {schema}.word_tally, {schema}.untallied
