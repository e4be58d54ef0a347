-- driver.Lister for one name. It changes nothing.
local answer, held = {key, id, 'ok', capacity}, holding()
for i = 1, #queue do
  standing(answer, i, held)
end
return answer
