-- driver.Lister for one name. It changes nothing.
local answer = {key, id, 'ok', capacity}
for i = 1, #queue do
  standing(answer, i)
end
return answer
