UPDATE {schema}.setting SET value = jsonb_build_object('claimed_at', now()) WHERE name = 'vector_index_build'
