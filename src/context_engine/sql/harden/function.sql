-- The second belt: which access classes the caller of this transaction sees, found anew from the principals that the
-- engine sets in each transaction, by the very statement that the engine asks (its text is put in below). Nothing
-- set means nothing seen, not even what is public. It runs with its owner's rights, so that the policy on the tally
-- does not call for itself. What it found holds for the same principals in the same snapshot, and is kept until the
-- transaction ends: a search asks a dozen times.
CREATE OR REPLACE FUNCTION {schema}.caller_acls(may_be_trusted boolean) RETURNS integer[]
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED SET search_path = pg_catalog
AS $function$
DECLARE
    given text := coalesce(current_setting('context_engine.principals', true), '');
    kept text := current_setting('context_engine.caller_acls', true);
    kept_for text := md5(given) || pg_current_snapshot();
    given_principals text[];
    found integer[];
BEGIN
    IF current_setting('context_engine.trusted', true) = 'on' AND NOT may_be_trusted THEN
        RAISE insufficient_privilege USING MESSAGE = 'this role may not read as TRUSTED';
    END IF;
    IF given = '' THEN
        RETURN '{{}}';
    END IF;
    IF starts_with(kept, kept_for || ' ') THEN
        RETURN substr(kept, length(kept_for) + 2);
    END IF;
    given_principals := ARRAY(SELECT jsonb_array_elements_text(given::jsonb));
    found := (
        SELECT acls::integer[]
        FROM (
            <rule>
        ) AS resolved (acls)
    );
    PERFORM set_config('context_engine.caller_acls', kept_for || ' ' || found::text, true);
    RETURN found;
END
$function$;
COMMENT ON FUNCTION {schema}.caller_acls(boolean) IS {digest};
REVOKE ALL ON FUNCTION {schema}.caller_acls(boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.caller_acls(boolean) TO {reader}
