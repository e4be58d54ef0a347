-- What the commands of TairString do and answer, for a server without the module. A TairString is a hash with the fields
-- value, version and flags. The functions return what the commands answer, errors too.
local redis = (function(server)
  local mark = 'TairString'
  local plain = {err = 'WRONGTYPE Operation against a key holding the wrong kind of value'}
  local syntax = {err = 'ERR syntax error'}
  local played = {}

  local function is(key)
    local kind = server.call('TYPE', key).ok
    if kind == 'hash' and server.call('HEXISTS', key, mark) == 1 then
      return 'exstrtype'
    end
    return kind
  end

  -- options takes the words after the fixed arguments apart. Those with a number have what the number may be at least.
  local function options(allowed, ...)
    local words, given, i = {...}, {}, 1
    while i <= #words do
      local word = string.upper(words[i])
      local least = allowed[word]
      if least == nil or given[word] then
        return nil
      elseif least then
        local text = tostring(words[i + 1])
        local n = string.match(text, '^%-?%d+$') and tonumber(text)
        if not n or n < least then
          return nil
        end
        given[word] = n
        i = i + 1
      else
        given[word] = true
      end
      i = i + 1
    end
    local ends = 0
    for _, word in ipairs({'EX', 'PX', 'EXAT', 'PXAT', 'KEEPTTL'}) do
      ends = ends + (given[word] and 1 or 0)
    end
    if ends > 1 or given.NX and given.XX or given.VER and given.ABS then
      return nil
    end
    return given
  end

  local lasting = {EX = 1, PX = 1, EXAT = 1, PXAT = 1, KEEPTTL = false}
  local setting = {EX = 1, PX = 1, EXAT = 1, PXAT = 1, KEEPTTL = false, NX = false, XX = false, VER = 0, ABS = 0, FLAGS = 0, WITHVERSION = false}

  -- last sets how long a key lasts: for ever, if nothing is said.
  local function last(key, o)
    local n = string.format('%.0f', o.EX or o.PX or o.EXAT or o.PXAT or 0)
    if o.EX then
      server.call('EXPIRE', key, n)
    elseif o.PX then
      server.call('PEXPIRE', key, n)
    elseif o.EXAT then
      server.call('EXPIREAT', key, n)
    elseif o.PXAT then
      server.call('PEXPIREAT', key, n)
    elseif not o.KEEPTTL then
      server.call('PERSIST', key)
    end
  end

  local function read(key)
    local found = server.call('HMGET', key, 'value', 'version', 'flags')
    return found[1], tonumber(found[2]), tonumber(found[3])
  end

  local function write(key, value, version, flags, o)
    server.call('HSET', key, mark, '', 'value', value, 'version', string.format('%.0f', version), 'flags', string.format('%.0f', flags))
    last(key, o)
  end

  function played.TYPE(key)
    return {ok = is(key)}
  end

  function played.EXSET(key, value, ...)
    local o, kind = options(setting, ...), is(key)
    if not o or (o.FLAGS or 0) > 4294967295 then
      return syntax
    elseif kind ~= 'none' and kind ~= 'exstrtype' then
      return plain
    elseif o.NX and kind ~= 'none' or o.XX and kind == 'none' then
      return false
    end
    local version, flags = 0, 0
    if kind ~= 'none' then
      local _, was, had = read(key)
      version, flags = was, had
      if (o.VER or 0) ~= 0 and o.VER ~= version then
        return {err = 'ERR update version is stale'}
      end
    end
    version = o.ABS or version + 1
    write(key, value, version, o.FLAGS or flags, o)
    if o.WITHVERSION then
      return version
    end
    return {ok = 'OK'}
  end

  function played.EXGET(key, with)
    local kind = is(key)
    if kind == 'none' then
      return false
    elseif kind ~= 'exstrtype' then
      return plain
    end
    local value, version, flags = read(key)
    if with and string.upper(with) == 'WITHFLAGS' then
      return {value, version, flags}
    end
    return {value, version}
  end

  function played.EXCAS(key, new, version, ...)
    local o, kind = options(lasting, ...), is(key)
    if not string.match(version, '^%-?%d+$') then
      return {err = 'ERR version should be integer'}
    elseif not o then
      return syntax
    elseif kind == 'none' then
      return -1
    elseif kind ~= 'exstrtype' then
      return plain
    end
    local value, is, flags = read(key)
    if is ~= tonumber(version) then
      return {{ok = 'CAS_FAILED'}, value, is}
    end
    write(key, new, is + 1, flags, o)
    return {{ok = 'OK'}, {ok = ''}, is + 1}
  end

  function played.EXCAD(key, version)
    local kind = is(key)
    if not string.match(version, '^%-?%d+$') then
      return syntax
    elseif kind == 'none' then
      return -1
    elseif kind ~= 'exstrtype' then
      return plain
    end
    local _, is = read(key)
    if is ~= tonumber(version) then
      return 0
    end
    return server.call('DEL', key)
  end

  function played.EXSETVER(key, version)
    local kind = is(key)
    if (tonumber(version) or 0) <= 0 then
      return syntax
    elseif kind == 'none' then
      return 0
    elseif kind ~= 'exstrtype' then
      return plain
    end
    server.call('HSET', key, 'version', version)
    return 1
  end

  function played.CAS(key, old, new, ...)
    local o, kind = options(lasting, ...), is(key)
    if not o then
      return syntax
    elseif kind == 'none' then
      return -1
    elseif kind ~= 'string' then
      return plain
    elseif server.call('GET', key) ~= old then
      return 0
    end
    server.call('SET', key, new, 'KEEPTTL')
    last(key, o)
    return 1
  end

  function played.CAD(key, old)
    local kind = is(key)
    if kind == 'none' then
      return -1
    elseif kind ~= 'string' then
      return plain
    elseif server.call('GET', key) ~= old then
      return 0
    end
    return server.call('DEL', key)
  end

  -- What reads or writes a string does not do so with a TairString, which the server takes for a hash anyway.
  local front = setmetatable({}, {__index = server})
  local function answer(play, ...)
    local texts = {...}
    for i, text in ipairs(texts) do
      if type(text) == 'number' then
        texts[i] = string.format('%.17g', text)
      end
    end
    return play(unpack(texts))
  end
  function front.pcall(command, ...)
    local play = played[string.upper(command)]
    if play then
      return answer(play, ...)
    end
    return server.pcall(command, ...)
  end
  function front.call(command, ...)
    local play = played[string.upper(command)]
    if not play then
      return server.call(command, ...)
    end
    local answer = answer(play, ...)
    if type(answer) == 'table' and answer.err then
      error(answer, 0)
    end
    return answer
  end
  return front
end)(redis)
