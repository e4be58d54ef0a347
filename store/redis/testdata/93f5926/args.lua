-- What today's driver gives enter, as the scripts of that version want it.
local a, b, c, d, at = struct.unpack('>I2I2I2I2', ARGV[7])
local ARGV = {ARGV[1], string.sub(ARGV[7], at + a, at + a + b - 1), string.sub(ARGV[7], at + a + b, at + a + b + c - 1),
  string.sub(ARGV[7], at + a + b + c), tostring(struct.unpack('>I4', ARGV[5])), tostring(struct.unpack('>I4', ARGV[4], 7)),
  ARGV[2], ARGV[8], string.format('%.0f', (struct.unpack('>d', ARGV[6]))), ARGV[10] or '0', ARGV[9]}
