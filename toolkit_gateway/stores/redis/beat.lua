#!lua flags=allow-oom
-- KEYS: a hash of the gateway, a channel. A replica refuses HDEL, and so does a Redis whose user may not write. So a
-- subscriber that gets the message is connected to the master. Changes nothing.
redis.call('HDEL', KEYS[1], '')
return redis.call('SPUBLISH', KEYS[2], '')
