package main

// The stores that a URL can name, of which these need no library. Each of the others has a file and a build tag that
// leaves it out: store_redis.go and no_redis, and so on.
import (
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/memory"
	_ "github.com/stilelock/stile/store/remote"
	_ "github.com/stilelock/stile/store/shard"
)
