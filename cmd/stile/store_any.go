package main

// These stores need no library. Each other store has a file and a build tag that leaves it out: store_redis.go and no_redis,
// and so on.
import (
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/memory"
	_ "github.com/stilelock/stile/store/remote"
	_ "github.com/stilelock/stile/store/shard"
)
