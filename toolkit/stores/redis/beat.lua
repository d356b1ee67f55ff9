#!lua flags=allow-oom
-- KEYS: a hash of ours, a channel. A subscriber who hears this is connected to the master; a replica refuses it, and so
-- does a Redis whose user may not write. Changes nothing.
redis.call('HDEL', KEYS[1], '')
return redis.call('SPUBLISH', KEYS[2], '')
