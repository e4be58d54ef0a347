package redis

import (
	_ "github.com/redis/rueidis"
	_ "github.com/stilelock/stile/driver"
)
