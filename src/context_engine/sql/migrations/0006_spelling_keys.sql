-- Words of any length are found by keys, long ones no more by trigrams. The words are added again, with their keys, by the
-- reindex that the new version of the analyser asks for.
DROP INDEX {schema}.lexicon_trigrams;
DROP INDEX {schema}.lexicon_deletions;
DELETE FROM {schema}.lexicon;
ALTER TABLE {schema}.lexicon RENAME COLUMN deletions TO keys;
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN  -- before, NOT NULL has no name
        ALTER TABLE {schema}.lexicon RENAME CONSTRAINT lexicon_deletions_not_null TO lexicon_keys_not_null;
    END IF;
END
$$;
CREATE INDEX lexicon_keys ON {schema}.lexicon USING gin (keys);
