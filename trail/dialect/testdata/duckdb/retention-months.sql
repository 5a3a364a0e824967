WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'visit'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            (year(timezone('America/New_York', timezone('UTC', time))) * 12 + month(timezone('America/New_York', timezone('UTC', time)))) - (year(timezone('America/New_York', timezone('UTC', began))) * 12 + month(timezone('America/New_York', timezone('UTC', began)))) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    came AS (
        SELECT user, bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        WHERE period < 3
        GROUP BY user
    ),
    periods AS (
        SELECT range AS k
        FROM range(3)
    ),
    counted AS (
        SELECT
            date_trunc('month', timezone('America/New_York', timezone('UTC', began)))::DATE AS cohort,
            bits,
            count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, bits
    )
SELECT
    cohort,
    sum(n)::BIGINT AS users,
    k AS period,
    coalesce(sum(n) FILTER ((bits >> k::INTEGER) & 1 = 1), 0)::BIGINT AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
