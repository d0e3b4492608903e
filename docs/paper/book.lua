-- What Pandoc does not know of this book: which links lead out of it, and how wide the columns of a long table are.

-- A link leads to the web or within the book: what is neither keeps its words.
function Link(link)
  if not link.target:match('^#') and not link.target:match('^https?:') then
    return link.content
  end
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
  return tbl
end
