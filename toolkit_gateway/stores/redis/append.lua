-- KEYS and ARGV are those of `append`.
return append(#KEYS, 3, current_epoch())
