SELECT gin_clean_pending_list(to_regclass(%(lexeme_index)s)), gin_clean_pending_list(to_regclass(%(lexicon_index)s))
