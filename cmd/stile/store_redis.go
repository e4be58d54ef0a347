//go:build !no_redis

package main

import _ "github.com/stilelock/stile/store/redis"
