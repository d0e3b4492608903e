-- What Pandoc does not know of this book: which links lead out of it, what a page break must not part, and how wide the
-- columns of a long table are.

-- A link leads to the web or within the book: what is neither keeps its words.
function Link(link)
  if not link.target:match('^#') and not link.target:match('^https?:') then
    return link.content
  end
end

local function within(name, blocks)
  local inside = pandoc.List({ pandoc.RawBlock('typst', '#' .. name .. '[') })
  inside:extend(blocks)
  inside:insert(pandoc.RawBlock('typst', ']'))
  return inside
end

-- The line that says whom a section is for, or how hard an exercise is, stays with what follows it. So does a text with
-- the single line after it, such as the name that an answer gets, and with its table; so does code with what it shows.
function Blocks(blocks)
  local kept, heading = pandoc.List(), false
  for place, block in ipairs(blocks) do
    local after = blocks[place + 1]
    local line = heading and block.t == 'Para' and block.content[1].t == 'Emph'
    local follows = after and (after.t == 'RawBlock' and after.text:match('%l+') or after.t)
    local leads = block.t == 'Para' and (follows == 'Table' or follows == 'whole'
      or follows == 'CodeBlock' and not after.text:find('\n')
      or follows == 'Para' and pandoc.utils.stringify(after):match('^Deeper: '))
    local shows = block.t == 'CodeBlock' and block.classes[1] ~= 'shown' and select(2, block.text:gsub('\n', '')) < 12
      and (follows == 'picture' or follows == 'CodeBlock' and after.classes[1] == 'shown')
    local name = (line or leads) and 'kept' or shows and 'shows'
    kept:extend(name and within(name, { block }) or { block })
    heading = block.t == 'Header'
  end
  return kept
end

-- A question stays with its choices.
function OrderedList(list)
  for place, item in ipairs(list.content) do
    if item[2] and item[2].t == 'BulletList' then
      list.content[place] = within('whole', item)
    end
  end
  return list
end

-- A table with more words than a line has room for is as wide as the page, and each column by the words in it.
function Table(tbl)
  local total, most, word = {}, {}, {}
  local function count(row)
    for place, cell in ipairs(row.cells) do
      local text = pandoc.utils.stringify(cell.contents)
      local length = #text
      for found in text:gmatch('%S+') do
        word[place] = math.max(word[place] or 0, math.min(#found, 15)) -- longer ones may break
      end
      total[place] = (total[place] or 0) + length
      most[place] = math.max(most[place] or 0, length)
    end
  end
  local rows = 0
  for _, row in ipairs(tbl.head.rows) do
    for place, cell in ipairs(row.cells) do
      word[place] = #pandoc.utils.stringify(cell.contents):match('%S*')
    end
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      count(row)
      rows = rows + 1
    end
  end
  local line, weights, sum = 0, {}, 0
  for place, length in ipairs(most) do
    line = line + length
    weights[place] = math.sqrt(total[place] / rows * length) + 7
    sum = sum + weights[place]
  end
  if line > 90 then
    local wide = 0
    for place, weight in ipairs(weights) do
      weights[place] = math.max(weight / sum, ((word[place] or 0) + 3) / 100)
      wide = wide + weights[place]
    end
    for place, weight in ipairs(weights) do
      tbl.colspecs[place][2] = weight / wide
    end
  end
  return rows <= 8 and within('whole', { tbl }) or { tbl }
end
