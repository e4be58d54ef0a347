package secure

import "time"

const Hesitation = hesitation

func init() { askWithin = time.Minute } // a handshake takes long on a busy machine, and the contexts of the tests end
