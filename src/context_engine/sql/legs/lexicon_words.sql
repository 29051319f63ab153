-- Which of these there are, hidden ones too: what no visible chunk holds is dropped before it can count.
SELECT word FROM {schema}.lexicon WHERE word = ANY (string_to_array(%(words)s, ' '))
