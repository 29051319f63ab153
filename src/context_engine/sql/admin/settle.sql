SELECT gin_clean_pending_list(to_regclass(name)) FROM unnest(%(indexes)s::text[]) AS name
