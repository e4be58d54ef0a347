-- A record that replaced another has a version, which stands behind the client. With it, the record is as quorum.WithVersion has it.
local who, version = string.match(client, '^(.*)\t(%d+)$')
client = who or client
if version or string.sub(record, 1, 1) == '\t' then
  record = '\t' .. (version or '0') .. '\n' .. record
end
